package vm

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is one kernel module, unpacked.
type module struct {
	name string
	data []byte
}

// loadOrder returns the named modules and what they depend on, each after its
// dependencies. Names that are built into the kernel are left out.
func (k Kernel) loadOrder(ctx context.Context, names ...string) ([]module, error) {
	files, err := indexModules(k.Modules)
	if err != nil {
		return nil, err
	}
	builtin, err := os.ReadFile(filepath.Join(k.Modules, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(builtin)) {
		seen[moduleName(strings.TrimSpace(line))] = true
	}
	var order []module
	var visit func(name string) error
	visit = func(name string) error {
		if seen[name] {
			return nil
		}
		seen[name] = true
		file, ok := files[name]
		if !ok {
			return fmt.Errorf("module %s: neither built in nor below %s", name, k.Modules)
		}
		data, err := readModule(ctx, file)
		if err != nil {
			return err
		}
		deps, err := moduleDepends(data)
		if err != nil {
			return fmt.Errorf("module %s: %w", file, err)
		}
		for _, dep := range deps {
			if err := visit(dep); err != nil {
				return err
			}
		}
		order = append(order, module{name, data})
		return nil
	}
	for _, name := range names {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// indexModules maps module names to files below dir.
func indexModules(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err == nil && strings.Contains(filepath.Base(p), ".ko") {
			files[moduleName(p)] = p
		}
		return err
	})
	return files, err
}

// moduleName is the name by which a kernel knows the module in file: a dash
// in a file's name is an underscore in the module's.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// readModule reads a module, through xz or zstd if the distribution
// compressed it.
func readModule(ctx context.Context, file string) ([]byte, error) {
	var tool string
	switch filepath.Ext(file) {
	case ".xz":
		tool = "xz"
	case ".zst":
		tool = "zstd"
	default:
		return os.ReadFile(file)
	}
	data, err := exec.CommandContext(ctx, tool, "-dc", file).Output()
	if err != nil {
		return nil, fmt.Errorf("%s -dc %s: %w", tool, file, err)
	}
	return data, nil
}

// moduleDepends reads the names of the modules that a module needs first.
func moduleDepends(data []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("no .modinfo section")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	return parseModinfo(info), nil
}

func parseModinfo(info []byte) []string {
	for entry := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := strings.CutPrefix(string(entry), "depends="); ok {
			return strings.FieldsFunc(strings.ReplaceAll(list, "-", "_"), func(r rune) bool { return r == ',' })
		}
	}
	return nil
}
