package wsl

import "syscall"

// apart gives a process a console of its own, which nobody sees: it does not
// end with the window in which it was started, and Ctrl+C there is not for it.
func apart() *syscall.SysProcAttr {
	const createNoWindow, createNewProcessGroup = 0x08000000, 0x00000200
	return &syscall.SysProcAttr{HideWindow: true, CreationFlags: createNoWindow | createNewProcessGroup}
}
