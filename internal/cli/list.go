package cli

import (
	"errors"
	"fmt"

	"github.com/sandkasten/sandkasten/internal/cli/show"
)

// ListFlags are those of a subcommand that lists things with ids.
type ListFlags struct {
	JSON  bool `name:"json" xor:"form" help:"Print JSON."`
	Quiet bool `short:"q" xor:"form" help:"Print ids only."`
}

// Print prints a list as JSON, or its rows: those of a table with a heading and ids
// in the first column. None is what people are told of an empty one.
func (f ListFlags) Print(a *App, list any, rows [][]string, none string) error {
	switch {
	case f.JSON:
		return show.JSON(a.Out, list)
	case f.Quiet:
		for _, row := range rows[1:] {
			if err := a.PrintID(row[0]); err != nil {
				return err
			}
		}
		return nil
	case len(rows) == 1:
		a.Say("%s", none)
		return nil
	}
	return show.Table(a.Out, rows)
}

// PrintID prints the id of something, for scripts.
func (a *App) PrintID(id string) error {
	_, err := fmt.Fprintln(a.Out, show.Printable(id))
	return err
}

// PrintMade prints what was made: its id, or all of it as JSON.
func (a *App) PrintMade(id string, made any, asJSON bool) error {
	if asJSON {
		return show.JSON(a.Out, made)
	}
	return a.PrintID(id)
}

// RemoveEach removes things by their ids and prints those that are gone, also if
// one of them cannot be removed.
func (a *App) RemoveEach(ids []string, remove func(id string) error) error {
	var failed error
	for _, id := range ids {
		if err := remove(id); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", show.Printable(id), err))
			continue
		}
		if err := a.PrintID(id); err != nil {
			return err
		}
	}
	return failed
}
