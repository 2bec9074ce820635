// SPDX-License-Identifier: Apache-2.0

// Command shapes sums areas through an interface, of which one type is nearly all: what a compiler with a profile calls directly, and
// can inline then. It prints the rounds per second of CPU time that it has done in the seconds given.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

type shape interface{ area(scale int) int }

type square struct{ side int }

type disc struct{ radius int }

func (s *square) area(scale int) int {
	side := s.side * scale
	if side < 0 {
		side = -side
	}
	return side*side + scale
}

func (d *disc) area(scale int) int { return 3 * d.radius * d.radius * scale }

//go:noinline
func total(shapes []shape, scale int) (sum int) {
	for _, s := range shapes {
		sum += s.area(scale)
	}
	return sum
}

func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		panic(err)
	}
	shapes := make([]shape, 2048)
	for i := range shapes {
		shapes[i] = &square{i}
		if i%64 == 0 {
			shapes[i] = &disc{i}
		}
	}
	rounds, sum, end := 0, 0, time.Duration(seconds*float64(time.Second))
	for cpu() < end {
		for i := 0; i < 1000; i++ {
			sum += total(shapes, i)
		}
		rounds++
	}
	fmt.Printf("%.1f rounds per second, sum %d\n", float64(rounds)/cpu().Seconds(), sum)
}
