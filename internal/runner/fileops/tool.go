package fileops

import (
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandkasten/sandkasten/internal/runner/files"
	"github.com/sandkasten/sandkasten/protocol"
)

// ToolName is the name, its first argument, under which the runner's program
// is a tool: a process of the sandbox that answers one request and exits.
const ToolName = "sandkasten-files"

// Descriptors of a tool.
const (
	connFD    = 3 // the daemon's connection
	requestFD = 4 // the request, as far as it has been received
	beganFD   = 5 // gets a byte before the answer begins
)

// light is how many bytes of a file are moved, or of a directory read, without
// a tool.
const (
	light     = 1 << 20
	lightEdit = 64 << 10 // of the texts
)

// Heavy reports whether a request may take so much time, memory or page cache
// that the sandbox is to pay for it.
func (c *Conn) Heavy(h protocol.Header) bool {
	heavy := false
	size := func(path string, outside bool) int64 {
		info, err := c.Files.Stat(protocol.Stat{Path: path, Follow: true, AllowOutside: outside})
		if err != nil {
			return 0
		}
		return info.Size
	}
	var err error
	switch h.Type {
	case protocol.TypeCopy, protocol.TypeGlob, protocol.TypeGrep, protocol.TypeWatch, protocol.TypeUnpack:
		return true
	case protocol.TypePack:
		// A tool would stand still with the programs. Who asks sees to it that
		// there is one such request at a time.
		err = handleDecoded(h, func(r protocol.Pack) error { heavy = r.Snapshot == ""; return nil })
	case protocol.TypeWrite:
		return h.Bytes > light
	case protocol.TypeRead:
		err = handleDecoded(h, func(r protocol.Read) error {
			heavy = (r.MaxBytes == 0 || r.MaxBytes > light) && size(r.Path, r.AllowOutside)-r.Offset > light
			return nil
		})
	case protocol.TypeList:
		err = handleDecoded(h, func(r protocol.List) error {
			heavy = r.Depth < 0 || r.Depth > 1 || size(r.Path, r.AllowOutside) > light
			return nil
		})
	case protocol.TypeEdit:
		err = handleDecoded(h, func(r protocol.Edit) error {
			heavy = h.Bytes > lightEdit || size(r.Path, r.AllowOutside) > light
			return nil
		})
	case protocol.TypeRemove:
		err = handleDecoded(h, func(r protocol.Remove) error { heavy = r.Recursive; return nil })
	case protocol.TypeChmod:
		err = handleDecoded(h, func(r protocol.Chmod) error { heavy = r.Recursive; return nil })
	}
	return heavy && err == nil
}

// User is whose rights a request asks for; "" is the sandbox's own.
func User(h protocol.Header) (user string, err error) {
	type asked struct {
		User string `json:"user"`
	}
	err = handleDecoded(h, func(r asked) error { user = r.User; return nil })
	return user, err
}

// RestoresOwners reports whether a request brings back the files of a whole root,
// each to its owner, which root alone can.
func RestoresOwners(h protocol.Header) bool {
	restores := false
	err := handleDecoded(h, func(r protocol.Unpack) error { restores = r.Snapshot == protocol.SnapshotLayer; return nil })
	return h.Type == protocol.TypeUnpack && restores && err == nil
}

// RunTool is the life of a tool, whose exit code it returns: 0 when the request
// was answered and the connection can go on.
func RunTool(args []string) int {
	if err := answerOne(args); err != nil {
		return 1
	}
	return 0
}

func answerOne(args []string) (err error) {
	if len(args) != 3 {
		return errors.New("a tool is started by the runner")
	}
	rest, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	s, err := files.Open(args[1], -1, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	conn, request := os.NewFile(connFD, "daemon"), os.NewFile(requestFD, "request")
	c := &Conn{
		Files: s, File: conn, FD: connFD,
		// Not a byte of the next request is taken: that is the runner's.
		In:  protocol.NewReader(io.MultiReader(request, io.LimitReader(conn, rest)), protocol.Daemon),
		Out: protocol.NewWriter(&announcer{to: Patient{conn}}),
	}
	h, err := c.In.Next()
	if err != nil {
		return err
	}
	err = c.Answer(h)
	if refusal, ok := errors.AsType[*protocol.Error](err); ok {
		if err := c.In.Discard(); err != nil {
			return err
		}
		return c.Out.Send(protocol.TypeError, refusal, nil)
	}
	return err
}

// announcer tells the runner that the answer begins.
type announcer struct {
	to    io.Writer
	began bool
}

func (a *announcer) Write(p []byte) (int, error) {
	if !a.began {
		a.began = true
		if _, err := unix.Write(beganFD, []byte{1}); err != nil {
			return 0, err
		}
	}
	return a.to.Write(p)
}
