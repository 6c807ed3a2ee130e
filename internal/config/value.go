package config

import (
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// value binds a key to a place in a Config.
type value struct {
	want string                  // what to write, reading on from "write "
	tag  string                  // the YAML type it has to be
	set  func(n *yaml.Node) bool // false when it is not what was wanted
	show func() string           // the present value as YAML; empty when there is none

	// read is set's place in a value with parts, whose mistakes it tells itself.
	read func(l *loader, o option, where string, n *yaml.Node)

	secret bool // never quoted in a message
}

func scalar(want, tag string, set func(string) bool, show func() string) value {
	return value{want: want, tag: tag, set: func(n *yaml.Node) bool { return set(n.Value) }, show: show}
}

func text(p *string) value {
	return scalar("a text in quotes", "!!str", func(s string) bool {
		*p = s
		return s != ""
	}, func() string { return *p })
}

func secret(p *string) value {
	v := text(p)
	v.secret = true
	return v
}

func path(p *string) value {
	return scalar("an absolute path", "!!str", func(s string) bool {
		*p = filepath.Clean(s)
		return filepath.IsAbs(s)
	}, func() string { return *p })
}

func address(p *string) value {
	return scalar("host:port, as 127.0.0.1:8787", "!!str", func(s string) bool {
		*p = s
		_, port, err := net.SplitHostPort(s)
		if err != nil {
			return false
		}
		_, err = strconv.ParseUint(port, 10, 16)
		return err == nil
	}, func() string { return *p })
}

func webAddress(p *string) value {
	return scalar("an http or https address without a path, as https://s3.example.org", "!!str", func(s string) bool {
		*p = strings.TrimSuffix(s, "/")
		u, err := url.Parse(*p)
		return err == nil && (u.Scheme == "http" || u.Scheme == "https") && *p == u.Scheme+"://"+u.Host && u.Hostname() != ""
	}, func() string { return *p })
}

// baseAddress is where a path can be put behind.
func baseAddress(p *string) value {
	return scalar("an http or https address without a query, as https://cdn.example.org/files", "!!str", func(s string) bool {
		*p = strings.TrimRight(s, "/")
		u, err := url.Parse(*p)
		return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && !strings.ContainsAny(*p, "?#")
	}, func() string { return *p })
}

// origins are web sites as browsers name them in Origin.
func origins(p *[]string) value {
	v := texts(p)
	v.want = "a list of origins as browsers send them, like [https://app.example.org]: lower case, no path, no usual port"
	list := v.set
	v.set = func(n *yaml.Node) bool {
		return list(n) && !slices.ContainsFunc(*p, func(s string) bool { return !asBrowsersSay(s) })
	}
	return v
}

// prefixes is a list of networks and addresses.
func prefixes(p *[]netip.Prefix) value {
	var list []string
	v := texts(&list)
	v.want = "a list of addresses and networks, as [127.0.0.1, 10.0.0.0/8, \"fd00::/8\"]"
	read := v.set
	v.set = func(n *yaml.Node) bool {
		if !read(n) {
			return false
		}
		*p = nil
		for _, one := range list {
			network, ok := prefixOf(one)
			if !ok {
				return false
			}
			*p = append(*p, network)
		}
		return true
	}
	return v
}

// prefixOf reads a network, or an address as the network of it alone.
func prefixOf(text string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), a.Zone() == ""
	}
	network, err := netip.ParsePrefix(text)
	return network.Masked(), err == nil
}

// originForm is a scheme, a name or an address, and perhaps a port.
var originForm = regexp.MustCompile(`^(http|https)://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([1-9][0-9]{0,4}))?$`)

// asBrowsersSay reports whether an origin is spelled as browsers spell it: another
// spelling, or a pattern, would never match.
func asBrowsersSay(origin string) bool {
	parts := originForm.FindStringSubmatch(origin)
	usual := map[string]string{"http": "80", "https": "443"}
	return parts != nil && parts[2] != usual[parts[1]]
}

// domainForm is two or more labels, of which none is a number alone.
var domainForm = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

func domain(p *string) value {
	const most = 200 // leaves room for names below it
	return scalar("a domain in lower case, as preview.example.org", "!!str", func(s string) bool {
		*p = s
		return len(s) <= most && domainForm.MatchString(s)
	}, func() string { return *p })
}

// workspaceID is the name of a workspace.
func workspaceID(p *string) value {
	const most = 64
	return scalar("1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'", "!!str", func(s string) bool {
		*p = s
		rest := strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
		return s != "" && len(s) <= most && rest == "" && s != "." && s != ".."
	}, func() string { return *p })
}

// userForm is a user, and a group if wanted, each a name or a number.
var userForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?$`)

func user(p *string) value {
	return scalar(`a user in quotes, as "1000:1000" or "app", or image`, "!!str", func(s string) bool {
		*p = s
		return userForm.MatchString(s)
	}, func() string { return *p })
}

func oneOf(p *string, choices ...string) value {
	want := strings.Join(choices, ", ")
	if i := strings.LastIndex(want, ", "); i >= 0 {
		want = want[:i] + " or " + want[i+2:]
	}
	return scalar(want, "!!str", func(s string) bool {
		*p = s
		return slices.Contains(choices, s)
	}, func() string { return *p })
}

// someOf is a list of choices, each at most once.
func someOf(p *[]string, choices ...string) value {
	return value{want: "a list of some of " + strings.Join(choices, ", "), tag: "!!seq", set: func(n *yaml.Node) bool {
		list := []string{}
		for _, item := range n.Content {
			if !slices.Contains(choices, item.Value) || slices.Contains(list, item.Value) {
				return false
			}
			list = append(list, item.Value)
		}
		*p = list
		return true
	}, show: func() string { return "[" + strings.Join(*p, ", ") + "]" }}
}

func boolean(p *bool) value {
	return scalar("true or false", "!!bool", func(s string) bool {
		*p = s == "true"
		return s == "true" || s == "false"
	}, func() string { return strconv.FormatBool(*p) })
}

func integer[T int | int64](p *T, low, high int64) value {
	return scalar(wholeNumber("", low, high), "!!int", func(s string) bool {
		n, ok := within(s, low, high)
		*p = T(n)
		return ok
	}, func() string { return strconv.FormatInt(int64(*p), 10) })
}

func seconds(p *time.Duration, low, high int64) value {
	return duration(p, time.Second, wholeNumber(" of seconds", low, high), low, high)
}

func days(p *time.Duration, low, high int64) value {
	return duration(p, day*time.Second, wholeNumber(" of days", low, high), low, high)
}

func hours(p *time.Duration, low, high int64) value {
	return duration(p, time.Hour, wholeNumber(" of hours", low, high), low, high)
}

func millis(p *time.Duration, low, high int64) value {
	return duration(p, time.Millisecond, wholeNumber(" of milliseconds", low, high), low, high)
}

// duration checks the range before it multiplies, so that no number can
// overflow into a short or negative time.
func duration(p *time.Duration, unit time.Duration, want string, low, high int64) value {
	return scalar(want, "!!int", func(s string) bool {
		n, ok := within(s, low, high)
		*p = time.Duration(n) * unit
		return ok
	}, func() string { return strconv.FormatInt(int64(*p/unit), 10) })
}

func wholeNumber(of string, low, high int64) string {
	return fmt.Sprintf("a whole number%s from %d to %d", of, low, high)
}

func within(s string, low, high int64) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < low || n > high {
		return low, false
	}
	return n, true
}

func decimal(p *float64, low, high float64) value {
	want := fmt.Sprintf("a number from %s to %s", showFloat(low), showFloat(high))
	return scalar(want, "!!float", func(s string) bool {
		f, err := strconv.ParseFloat(s, 64)
		*p = f
		return err == nil && !math.IsNaN(f) && f >= low && f <= high
	}, func() string { return showFloat(*p) })
}

func showFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func texts(p *[]string) value {
	return value{want: "a list of texts, as [python, node]", tag: "!!seq", set: func(n *yaml.Node) bool {
		list := []string{}
		for _, item := range n.Content {
			if item.ShortTag() != "!!str" || item.Value == "" {
				return false
			}
			list = append(list, item.Value)
		}
		*p = list
		return true
	}, show: func() string { return "[" + strings.Join(*p, ", ") + "]" }}
}

// filePaths is a list of absolute paths of files.
func filePaths(p *[]string) value {
	return value{want: "a list of absolute paths, as [/etc/ssl/company.pem]", tag: "!!seq", set: func(n *yaml.Node) bool {
		list := []string{}
		for _, item := range n.Content {
			if item.ShortTag() != "!!str" || !filepath.IsAbs(item.Value) {
				return false
			}
			list = append(list, item.Value)
		}
		*p = list
		return true
	}, show: func() string { return "[" + strings.Join(*p, ", ") + "]" }}
}

// directories is a list of directories that a container may have in memory: none that
// is ours or the kernel's, or has such below it.
func directories(p *[]string) value {
	const most = 16
	return value{want: "up to 16 absolute paths, as [/var/tmp], not /, /dev, /proc, /sys, /workspace or below these", tag: "!!seq", set: func(n *yaml.Node) bool {
		list := []string{}
		for _, item := range n.Content {
			if item.ShortTag() != "!!str" || !ownDirectory(item.Value) || slices.Contains(list, item.Value) {
				return false
			}
			list = append(list, item.Value)
		}
		*p = list
		return len(list) <= most
	}, show: func() string { return "[" + strings.Join(*p, ", ") + "]" }}
}

// ownDirectory reports whether a sandbox may have a file system of its own at path.
func ownDirectory(path string) bool {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" || strings.ContainsAny(path, ":,\x00") {
		return false
	}
	top, _, _ := strings.Cut(path[1:], "/")
	return !slices.Contains([]string{".sandkasten", "dev", "proc", "sys", "workspace"}, top)
}

func sizes(p *map[string]int) value {
	const most = 1000
	return value{want: "up to 100 names with whole numbers from 0 to 1000 or auto, as {python: 2, node: auto}", tag: "!!map", set: func(n *yaml.Node) bool {
		sized := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, size := n.Content[i].Value, n.Content[i+1].Value
			number, ok := within(size, 0, most)
			if size == "auto" {
				number, ok = Auto, true
			}
			if _, twice := sized[name]; twice || !ok {
				return false
			}
			sized[name] = int(number)
		}
		*p = sized
		return len(sized) <= 100
	}, show: func() string {
		pairs := []string{}
		for _, name := range slices.Sorted(maps.Keys(*p)) {
			size := strconv.Itoa((*p)[name])
			if (*p)[name] == Auto {
				size = "auto"
			}
			pairs = append(pairs, name+": "+size)
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	}}
}
