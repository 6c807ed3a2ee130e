package wsl_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf16"
)

// TestMain makes the test binary a stand-in for wsl.exe where this variable
// names its directory.
func TestMain(m *testing.M) {
	if dir := os.Getenv("WSL_STANDIN"); dir != "" {
		os.Exit(standin{dir: dir}.run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// standin behaves as wsl.exe does, with a directory as the only distribution's
// file system. The file `list` has the lines of --list --verbose.
type standin struct{ dir string }

// What Windows 11 prints, the second in the language of a German one.
const (
	none = "Windows Subsystem for Linux has no installed distributions.\r\n\r\n" +
		"Use 'wsl.exe --list --online' to list available distributions\r\nand 'wsl.exe --install <Distro>' to install.\r\n\r\n" +
		"Distributions can also be installed by visiting the Microsoft Store:\r\nhttps://aka.ms/wslstore\r\n" +
		"Error code: Wsl/WSL_E_DEFAULT_DISTRO_NOT_FOUND\r\n"
	german    = "  NAME              STATUS           VERSION\r\n* Ubuntu-22.04      Wird ausgeführt  2\r\n  docker-desktop    Beendet          2\r\n"
	heading   = "  NAME              STATE           VERSION\r\n"
	debian    = "* Debian            Stopped         2\r\n"
	debianOld = "* Debian            Stopped         1\r\n"
)

func (s standin) run(args []string) int {
	switch {
	case slices.Equal(args, []string{"--list", "--verbose"}):
		list, err := os.ReadFile(s.list())
		if err != nil {
			return say(none, 255)
		}
		return say(string(list), 0)
	case len(args) == 3 && args[0] == "--install" && args[2] == "--no-launch":
		return s.install(args[1])
	case len(args) > 5 && slices.Equal(args[:5], []string{"--distribution", "Debian", "--user", "root", "--exec"}):
		return s.exec(args[5:])
	}
	return say(fmt.Sprintf("Invalid command line option: %q\r\n", args), 255)
}

func (s standin) list() string { return filepath.Join(s.dir, "list") }

func (s standin) install(name string) int {
	switch name {
	case "Debian":
		if err := os.WriteFile(s.list(), []byte(heading+debian), 0o600); err != nil {
			return say(err.Error(), 255)
		}
	case "Half": // as older versions do: it is in no list before it was launched
	default:
		return say("Invalid distribution name: '"+name+"'.\r\nError code: Wsl/InstallDistro/WSL_E_DISTRO_NOT_FOUND\r\n", 255)
	}
	return say("Installing: "+name+"\r\n", 0)
}

// exec runs a program with the distribution's paths below the directory.
func (s standin) exec(args []string) int {
	var paths []string
	for _, dir := range []string{"/usr/local/bin/", "/run/", "/var/log/"} {
		paths = append(paths, dir, filepath.Join(s.dir, dir)+"/")
	}
	replacer := strings.NewReplacer(paths...)
	for i := range args {
		args[i] = replacer.Replace(args[i])
	}
	if args[0] == "sh" {
		return script(replacer)
	}
	path, err := exec.LookPath(args[0])
	if err == nil {
		err = syscall.Exec(path, args, os.Environ()) // so that who kills us kills it
	}
	return say(err.Error(), 255)
}

// script runs standard input, with other paths.
func script(replacer *strings.Replacer) int {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return say(err.Error(), 255)
	}
	cmd := exec.Command("sh", "-s") //nolint:noctx // it is what this process is for
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(replacer.Replace(string(text))), os.Stdout, os.Stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		return say(err.Error(), 255)
	}
	return cmd.ProcessState.ExitCode()
}

// say prints as wsl.exe does: UTF-16LE without a mark, also into a pipe.
func say(text string, code int) int {
	if err := binary.Write(os.Stdout, binary.LittleEndian, utf16.Encode([]rune(text))); err != nil {
		return 254
	}
	return code
}
