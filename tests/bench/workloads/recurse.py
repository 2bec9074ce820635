# SPDX-License-Identifier: Apache-2.0
"""Computes at the bottom of DEPTH functions of Python, the module among them, until it is killed. usage: recurse.py DEPTH"""
import sys


def bottom():
    x = 0
    while True:
        for i in range(100000):
            x = (x * 31 + i) % 1000003


def level(left):
    if left:
        level(left - 1)
    else:
        bottom()


sys.setrecursionlimit(10000)
level(int(sys.argv[1]) - 3)
