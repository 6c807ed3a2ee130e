// Package programs holds tests alone: what programs that expect a whole Linux
// system do in a sandbox. docs/programs.md is written from their table.
package programs
