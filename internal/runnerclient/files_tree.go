package runnerclient

import (
	"context"

	"github.com/sandkasten/sandkasten/protocol"
)

// Stat describes one file. Its Name is the path as it was asked for.
func (c *Client) Stat(ctx context.Context, s protocol.Stat) (protocol.FileInfo, error) {
	var info protocol.FileInfo
	if err := c.ask(ctx, protocol.TypeStat, s, protocol.TypeInfo, &info); err != nil {
		return protocol.FileInfo{}, err
	}
	if err := checkFile(&info); err != nil {
		return protocol.FileInfo{}, err
	}
	info.Name = s.Path
	return info, nil
}

// Mkdir makes a directory.
func (c *Client) Mkdir(ctx context.Context, m protocol.Mkdir) error {
	return c.ask(ctx, protocol.TypeMkdir, m, protocol.TypeOK, nil)
}

// Move renames a file or directory.
func (c *Client) Move(ctx context.Context, m protocol.Move) error {
	return c.ask(ctx, protocol.TypeMove, m, protocol.TypeOK, nil)
}

// Copy copies a file or directory. It stops where it is when ctx is done.
func (c *Client) Copy(ctx context.Context, p protocol.Copy) error {
	return c.work(ctx, protocol.TypeCopy, p, protocol.TypeOK, nil)
}

// Remove removes a file or directory. It stops where it is when ctx is done.
func (c *Client) Remove(ctx context.Context, r protocol.Remove) error {
	return c.work(ctx, protocol.TypeRemove, r, protocol.TypeOK, nil)
}

// Chmod sets modes. It stops where it is when ctx is done.
func (c *Client) Chmod(ctx context.Context, m protocol.Chmod) error {
	return c.work(ctx, protocol.TypeChmod, m, protocol.TypeOK, nil)
}

// List returns a directory's entries, at most l.Max, which must be set.
func (c *Client) List(ctx context.Context, l protocol.List) (protocol.Entries, error) {
	return c.entries(ctx, protocol.TypeList, l, l.Max, l.Depth < 0 || l.Depth > 1)
}

// Glob returns the files that match, at most g.Max, which must be set.
func (c *Client) Glob(ctx context.Context, g protocol.Glob) (protocol.Entries, error) {
	return c.entries(ctx, protocol.TypeGlob, g, g.Max, true)
}

func (c *Client) entries(ctx context.Context, t protocol.Type, req any, limit int, deep bool) (protocol.Entries, error) {
	var list protocol.Entries
	if err := c.work(ctx, t, req, protocol.TypeEntries, &list); err != nil {
		return protocol.Entries{}, err
	}
	if err := checkEntries(&list, limit, deep); err != nil {
		return protocol.Entries{}, err
	}
	return list, nil
}
