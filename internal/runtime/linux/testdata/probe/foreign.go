package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// socketcall32 is the 32-bit socketcall(2) from a 64-bit program.
func socketcall32(call uintptr) int32

// int80 says what the 32-bit call answered, if it lives to tell.
func int80([]string) error {
	fmt.Println("survived", socketcall32(1))
	return nil
}

// program32 is a whole 32-bit program: exit(7).
var program32 = []byte{
	0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, // 32 bits, little-endian
	2, 0, 3, 0, 1, 0, 0, 0, // an executable for i386
	0x54, 0x80, 0x04, 0x08, // entry: behind the headers
	0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x34, 0, 0x20, 0, 1, 0, 0, 0, 0, 0, 0, 0,
	1, 0, 0, 0, 0, 0, 0, 0, // one segment, from the start of the file
	0x00, 0x80, 0x04, 0x08, 0x00, 0x80, 0x04, 0x08, // at 0x08048000
	0x60, 0, 0, 0, 0x60, 0, 0, 0, 5, 0, 0, 0, 0x00, 0x10, 0, 0,
	0x31, 0xc0, 0x40, // xor eax, eax; inc eax
	0xb3, 7, // mov bl, 7
	0xcd, 0x80, // int 0x80
	0x90, 0x90, 0x90, 0x90, 0x90,
}

// i386 runs program32 and says how it ended.
func i386([]string) error {
	f, err := os.CreateTemp("", "i386")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(program32); err != nil {
		return err
	}
	if err := f.Chmod(0o700); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	cmd := exec.Command(f.Name())
	if err := cmd.Run(); cmd.ProcessState == nil {
		return err
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		fmt.Println("killed by", status.Signal())
	} else {
		fmt.Println("survived", status.ExitStatus())
	}
	return nil
}
