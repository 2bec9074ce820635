# SPDX-License-Identifier: Apache-2.0
# CMake toolchain: Debian's cross compiler for arm64, with the libraries of `deploy/cross/sysroot arm64`.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

if(NOT PROFLET_SYSROOT)
	execute_process(COMMAND ${CMAKE_CURRENT_LIST_DIR}/sysroot arm64 RESULT_VARIABLE failed
		OUTPUT_VARIABLE PROFLET_SYSROOT OUTPUT_STRIP_TRAILING_WHITESPACE)
	if(failed)
		message(FATAL_ERROR "no headers and libraries of arm64 to build with")
	endif()
endif()
set(PROFLET_SYSROOT ${PROFLET_SYSROOT} CACHE PATH "headers and libraries of arm64")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PROFLET_SYSROOT)
set(CMAKE_SYSROOT ${PROFLET_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# pkg-config sees the sysroot's libraries only
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${PROFLET_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${PROFLET_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${PROFLET_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_PATH} "")
