package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/sandkasten/sandkasten/internal/cli/files"
)

// decodeText reads a text, and refuses one that is not among those that its flag takes.
// The parser's own refusal offers "" as well, which stands for a flag that is left out.
func decodeText(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("string")
	if err != nil {
		return err
	}
	text := fmt.Sprint(token.Value) // PopValueInto replaces bytes that are no UTF-8, as file names have
	if ctx.Value.Enum != "" && text != "" && !slices.Contains(ctx.Value.EnumSlice(), text) {
		choices := slices.DeleteFunc(ctx.Value.EnumSlice(), func(choice string) bool { return choice == "" })
		return fmt.Errorf("must be one of %s, but is %q", strings.Join(choices, ", "), text)
	}
	target.SetString(text)
	return nil
}

// decodeInside reads paths of a session, whose bytes may be no UTF-8, as the API writes them.
func decodeInside(ctx *kong.DecodeContext, target reflect.Value) error {
	if target.Kind() == reflect.Slice {
		for _, token := range ctx.Scan.PopWhile(func(t kong.Token) bool { return t.IsValue() }) {
			target.Set(reflect.Append(target, reflect.ValueOf(files.InsidePath(fmt.Sprint(token.Value)))))
		}
		return nil
	}
	if err := decodeText(ctx, target); err != nil {
		return err
	}
	target.SetString(files.InsidePath(target.String()))
	return nil
}

// joinNegative joins flags and negative numbers behind them, as --cpu=-1, which the parser
// takes for other flags: what is wrong with the number then says who reads it.
func joinNegative(node *kong.Node, args []string) []string {
	var joined []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(joined, args[i:]...)
		}
		if i+1 < len(args) && isNegative(args[i+1]) && takesValue(follow(node, args[:i]), args[i]) {
			joined = append(joined, args[i]+"="+args[i+1])
			i++
			continue
		}
		joined = append(joined, args[i])
	}
	return joined
}

func isNegative(word string) bool {
	return len(word) > 1 && word[0] == '-' && strings.IndexByte("0123456789.", word[1]) >= 0
}

// takesValue reports whether a word is a flag of a command, by its long name, that has a
// value.
func takesValue(node *kong.Node, word string) bool {
	for _, flags := range node.AllFlags(true) {
		for _, f := range flags {
			if word == "--"+f.Name && !f.IsBool() && !f.IsCounter() {
				return true
			}
		}
	}
	return false
}
