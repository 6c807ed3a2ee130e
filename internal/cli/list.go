package cli

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/template"

	"github.com/sandkasten/sandkasten/internal/cli/show"
)

// FormFlags are those of a subcommand that shows what programs may want.
type FormFlags struct {
	JSON   bool   `name:"json" xor:"form" help:"Print JSON."`
	Format string `placeholder:"TEMPLATE" xor:"form" help:"Print each with this Go template, such as '{{.ID}} {{.Image}}'; {{json .}} prints everything."`
}

// Wanted reports whether what there is is to be printed for a program.
func (f FormFlags) Wanted() bool { return f.JSON || f.Format != "" }

// Done prints what there is as JSON or by the template, if one is wanted, and
// reports whether. A list is printed element by element.
func (f FormFlags) Done(a *App, v any) (bool, error) {
	switch {
	case f.JSON:
		return true, show.JSON(a.Out, v)
	case f.Format == "":
		return false, nil
	}
	form, err := template.New("--format").Funcs(show.TemplateFuncs()).Option("missingkey=zero").Parse(f.Format)
	if err != nil {
		return true, Wrong("--format is no Go template: %w", err)
	}
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice {
		return true, printBy(a, form, v)
	}
	for i := range list.Len() {
		if err := printBy(a, form, list.Index(i).Interface()); err != nil {
			return true, err
		}
	}
	return true, nil
}

// printBy prints one thing by a template, on a line of its own.
func printBy(a *App, form *template.Template, v any) error {
	var line strings.Builder
	if err := form.Execute(&line, v); err != nil {
		if fields := fieldsOf(reflect.TypeOf(v)); len(fields) > 0 && strings.Contains(err.Error(), "can't evaluate field") {
			return Wrong("--format: %w; the fields are %s", errors.Unwrap(err), strings.Join(fields, ", "))
		}
		return Wrong("--format: %w", err)
	}
	_, err := fmt.Fprintln(a.Out, show.Visible(line.String(), "\n\t"))
	return err
}

// fieldsOf are what a template may name of a thing.
func fieldsOf(t reflect.Type) (names []string) {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for _, field := range reflect.VisibleFields(t) {
		if field.IsExported() && !field.Anonymous {
			names = append(names, "."+field.Name)
		}
	}
	slices.Sort(names)
	return names
}

// ListFlags are those of a subcommand that lists things with ids.
type ListFlags struct {
	FormFlags

	Quiet bool `short:"q" xor:"form" help:"Print ids only."`
}

// Print prints a list as JSON, by a template, or its rows: those of a table with a
// heading and ids in the first column. None is what people are told of an empty one.
func (f ListFlags) Print(a *App, list any, rows [][]string, none string) error {
	if done, err := f.Done(a, list); done || err != nil {
		return err
	}
	if f.Quiet {
		for _, row := range rows[1:] {
			if err := a.PrintID(row[0]); err != nil {
				return err
			}
		}
		return nil
	}
	if len(rows) == 1 && none != "" {
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
