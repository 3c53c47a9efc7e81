//go:build !(linux && amd64)

package main

import "fmt"

func main() { fmt.Println("the C reference kernels are written for amd64 Linux") }
