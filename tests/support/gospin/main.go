// SPDX-License-Identifier: Apache-2.0

// Command gospin keeps one CPU busy in Go code: recursion, sorting, maps, hashing, the garbage collector. It ends by itself
// after the seconds given, 60 without.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"
)

type tree struct {
	left, right *tree
	value       int
}

func grow(depth, seed int) *tree {
	if depth == 0 {
		return nil
	}
	return &tree{grow(depth-1, seed*3), grow(depth-1, seed*5), seed}
}

func (t *tree) sum() int {
	if t == nil {
		return 0
	}
	return t.value + t.left.sum() + t.right.sum()
}

func fibonacci(n int) int {
	if n < 2 {
		return n
	}
	return fibonacci(n-1) + fibonacci(n-2)
}

func round(seed int) int {
	counts := map[string]int{}
	values := make([]int, 4096)
	for i := range values {
		seed = (seed*1103515245 + 12345) & 0x7fffffff
		values[i] = seed
		counts[strconv.Itoa(seed%512)]++
	}
	sort.Slice(values, func(a, b int) bool { return values[a] < values[b] })
	hash := sha256.Sum256([]byte(fmt.Sprint(values, len(counts))))
	return int(hash[0]) + grow(12, seed).sum() + fibonacci(22)
}

func main() {
	seconds := 60
	if len(os.Args) > 1 {
		seconds, _ = strconv.Atoi(os.Args[1])
	}
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	result := 0
	for time.Now().Before(end) {
		result ^= round(result)
	}
	fmt.Println(result)
}
