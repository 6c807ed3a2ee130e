// Command int80 is a 64-bit program that makes a 32-bit system call, and then
// says that it lives.
package main

// socketcall is socketcall(2) of 32-bit x86 with the arguments' address nil,
// by int 0x80.
func socketcall(call uintptr) int32

func main() {
	const socket = 1
	print("alive ", socketcall(socket))
}
