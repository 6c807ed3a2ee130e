//go:build !windows

package wsl

import "syscall"

// apart is for tests only: wsl.exe is a program of Windows.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
