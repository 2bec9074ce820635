# SPDX-License-Identifier: Apache-2.0
require_relative "app"
run Service
