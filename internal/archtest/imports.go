package archtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Rule is what one package may import beside the standard library. The rules
// are a table, so that a new dependency is a line in a review.
type Rule struct {
	Ours      []string // packages of the module, by directory
	Libraries []string // other packages, by path; those below one are meant too
	Not       []string // packages of the standard library that stay out
	TestOnly  bool     // nothing but tests and other such packages may import it
}

// Imports returns what is imported against the rules. A package without a rule
// is a finding, and so is a rule without a package or a permission unused.
func (r *Repo) Imports(rules map[string]Rule) []string {
	var found []string
	unused := map[string]bool{}
	for dir, rule := range rules {
		unused[dir] = true
		for _, p := range slices.Concat(rule.Ours, rule.Libraries) {
			unused[dir+" -> "+p] = true
		}
	}
	for _, p := range r.Packages {
		rule, ok := rules[p.Dir]
		if !ok {
			found = append(found, p.Dir+": has no rule; say in rules.go what it may import")
			continue
		}
		delete(unused, p.Dir)
		for _, f := range p.Files {
			for _, spec := range f.AST.Imports {
				target, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					found = append(found, fmt.Sprintf("%s: %v", r.where(spec.Pos()), err))
					continue
				}
				permission, problem := rule.judge(target, f.Test, rules)
				delete(unused, p.Dir+" -> "+permission)
				if problem != "" {
					found = append(found, fmt.Sprintf("%s: %s imports %s: %s", r.where(spec.Pos()), p.Dir, target, problem))
				}
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(unused)) {
		found = append(found, "rules.go: "+what+" is not needed")
	}
	return found
}

// judge returns the entry of the rule that permits target, and what is wrong
// with importing it, if anything is.
func (rule Rule) judge(target string, test bool, rules map[string]Rule) (permission, problem string) {
	if dir, ours := strings.CutPrefix(target, Module+"/"); ours {
		switch {
		case slices.Contains(rule.Ours, dir):
			return dir, ""
		case test:
			return "", "" // tests may put any parts together
		case rules[dir].TestOnly && !rule.TestOnly:
			return "", "it is for tests only"
		}
		return "", "not in its rule"
	}
	if first, _, _ := strings.Cut(target, "/"); !strings.Contains(first, ".") {
		if !test && slices.Contains(rule.Not, target) {
			return "", "its rule keeps that out"
		}
		return "", ""
	}
	for _, lib := range rule.Libraries {
		if target == lib || strings.HasPrefix(target, lib+"/") {
			return lib, ""
		}
	}
	if test {
		return "", ""
	}
	return "", "not in its rule"
}
