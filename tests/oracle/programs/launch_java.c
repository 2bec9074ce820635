// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a Java program in its first thread, which java does in another one: launch_java LIBJVM OPTION... CLASS
 * TRUTH
 */
#include <dlfcn.h>
#include <jni.h>
#include <stdio.h>

#define OPTIONS_MAX 32

typedef jint create_fn(JavaVM **vm, void **env, void *args);

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	create_fn *create = library ? (create_fn *)dlsym(library, "JNI_CreateJavaVM") : NULL;
	JavaVMOption options[OPTIONS_MAX];
	JavaVMInitArgs args = {.version = JNI_VERSION_1_8, .options = options};
	JavaVM *vm;
	JNIEnv *env;
	jclass class;
	jobjectArray strings;

	for (int i = 2; i + 2 < argc && args.nOptions < OPTIONS_MAX; i++)
		options[args.nOptions++] = (JavaVMOption){.optionString = argv[i]};
	if (argc < 4 || !create || create(&vm, (void **)&env, &args) != JNI_OK)
		return 1;
	class = (*env)->FindClass(env, argv[argc - 2]);
	strings = (*env)->NewObjectArray(env, 1, (*env)->FindClass(env, "java/lang/String"),
					 (*env)->NewStringUTF(env, argv[argc - 1]));
	if (!class)
		return 1;
	(*env)->CallStaticVoidMethod(
		env, class, (*env)->GetStaticMethodID(env, class, "main", "([Ljava/lang/String;)V"), strings);
	(*env)->ExceptionDescribe(env);
	return 1;
}
