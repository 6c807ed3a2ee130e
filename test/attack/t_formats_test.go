package attack

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
)

// T07: an archive that is cut, changed, longer than it says or not what its
// manifest says is refused whole, by whatever way it comes.
func TestT07_Damaged(t *testing.T) {
	s := stage(t, "")
	b := s.a.session(t, nil)
	b.sh(t, "head -c 20000 /dev/urandom >f; echo text >g")
	snapshot := []byte(s.a.do(t, "GET", "/v1/snapshots/"+b.snapshot(t, nil)+"/download", nil).body)
	flip := func(data []byte, at int) []byte {
		data = bytes.Clone(data)
		data[at] ^= 0x41
		return data
	}
	change := func(old, new string) []byte { return bytes.Replace(snapshot, []byte(old), []byte(new), 1) }
	count := func() int { return strings.Count(s.a.do(t, "GET", "/v1/snapshots", nil).body, `"scope"`) }
	before := count()
	for name, data := range map[string][]byte{
		"nothing": {}, "noise": bytes.Repeat([]byte("x"), 5000), "half": snapshot[:len(snapshot)/2], "cut in its last file": snapshot[:len(snapshot)-1024-600], "a flipped bit": flip(snapshot, len(snapshot)/2),
		"two": append(bytes.Clone(snapshot), snapshot...), "garbage behind": append(bytes.Clone(snapshot), "garbage"...), "another format": change(`"format":1`, `"format":2`), "another hash": change(`"sha256":"`, `"sha256":"0`)[:len(snapshot)],
		"more files": change(`"entries":2`, `"entries":3`), "unknown words": change(`"format":1`, `"fermat":1`), "another scope": change(`"scope":"workspace"`, `"scope":"workspoce"`), "a tar file": tarOf(t, entry{name: "f", body: "x"}),
		"compressed": zstdOf(t, snapshot), "no parts": snapshotOf(t, "sha256:"+strings.Repeat("0", 64), nil), "a part with another name": tarOf(t, entry{name: "../manifest.json", body: "{}"}),
	} {
		s.a.uploadSnapshot(t, data).refused(t, "a snapshot: "+name, 400, 411, 422)
	}
	if after := count(); after != before {
		t.Errorf("%d snapshots before, %d after", before, after)
	}
	sessions := s.a.count(t, "/v1/sessions")
	s.a.do(t, "POST", "/v1/sessions", map[string]any{"restore_snapshot_id": strings.Repeat("a", 26)}).refused(t, "restore what is not there", 404)
	if after := s.a.count(t, "/v1/sessions"); after != sessions {
		t.Errorf("%d sessions before, %d after", sessions, after)
	}
	whole := tarOf(t, rootOf(entry{name: "f", body: strings.Repeat("content", 5000)})...)
	packed := gzipOf(t, whole)
	for name, tt := range map[string]struct {
		format string
		data   []byte
	}{
		"cut in a header": {"tar", whole[:700]}, "cut in a file": {"tar", whole[:len(whole)-20000]}, "a flipped header": {"tar", flip(whole, 512+10)}, "noise": {"tar", bytes.Repeat([]byte("hello "), 1000)},
		"gzip, cut": {"tar.gz", packed[:len(packed)-6]}, "gzip, flipped": {"tar.gz", flip(packed, len(packed)/2)}, "gzip, garbage": {"tar.gz", append(bytes.Clone(packed), "garbage"...)},
		"zstd, cut": {"tar.zst", zstdOf(t, whole)[:100]}, "zstd, flipped": {"tar.zst", flip(zstdOf(t, whole), 60)}, "another": {"tar.zst", packed}, "zip, cut": {"zip", zipOf(t, entry{name: "f", body: "x"})[:50]}, "two": {"tar", append(bytes.Clone(whole), whole...)},
	} {
		b.unpack(t, "in", tt.format, tt.data).refused(t, "unpack: "+name, 422)
		if tt.format == "zip" {
			continue
		}
		st := s.store(t)
		if text, err := st.load(t, "damaged", tt.data); err == nil && name != "another" {
			t.Errorf("%s is an image: %s", name, text)
		} else if name != "another" {
			st.wantNothing(t)
		}
	}
}

func gzipOf(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(data)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// oci is an OCI layout that a test writes by hand.
type oci struct {
	dir string
	t   testing.TB
}

type descriptor map[string]any

// blob writes content under its digest and returns what names it.
func (o oci) blob(kind string, content []byte) descriptor {
	sum := sha256.Sum256(content)
	name := hex.EncodeToString(sum[:])
	o.write(filepath.Join("blobs", "sha256", name), content)
	return descriptor{"mediaType": kind, "digest": "sha256:" + name, "size": len(content)}
}

func (o oci) json(kind string, v any) descriptor {
	text, err := json.Marshal(v)
	if err != nil {
		o.t.Fatal(err)
	}
	return o.blob(kind, text)
}

func (o oci) write(name string, content []byte) {
	file := filepath.Join(o.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o644); err != nil {
		o.t.Fatal(err)
	}
}

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// layout writes an image, changed by edit: its layer's descriptor, config,
// manifest and index.
func layout(t testing.TB, edit func(o oci, layer descriptor, config, manifest, index map[string]any)) string {
	t.Helper()
	o := oci{t.TempDir(), t}
	plain := tarOf(t, rootOf()...)
	sum := sha256.Sum256(plain)
	layer := o.blob(layerType, gzipOf(t, plain))
	config := map[string]any{"os": "linux", "architecture": "amd64", "rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}}}
	manifest := map[string]any{"schemaVersion": 2, "mediaType": manifestType, "layers": []descriptor{layer}}
	index := map[string]any{"schemaVersion": 2}
	edit(o, layer, config, manifest, index)
	if manifest["config"] == nil {
		manifest["config"] = o.json(configType, config)
	}
	if index["manifests"] == nil {
		index["manifests"] = []descriptor{o.json(manifestType, manifest)}
	}
	text, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	o.write("index.json", text)
	o.write("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	return o.dir
}

// T09: an OCI image whose digests, sizes, kinds or structure are not right is
// refused, and nothing is fetched for it.
func TestT09_OCILayouts(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	type edit = func(o oci, layer descriptor, config, manifest, index map[string]any)
	zeros := "sha256:" + strings.Repeat("0", 64)
	for name, change := range map[string]edit{
		"": func(oci, descriptor, map[string]any, map[string]any, map[string]any) {},
		"another digest": func(o oci, layer descriptor, _, _, _ map[string]any) {
			o.write("blobs/sha256/"+strings.Repeat("a", 64), []byte("other"))
			layer["digest"] = "sha256:" + strings.Repeat("a", 64)
		},
		"a shorter size":    func(_ oci, layer descriptor, _, _, _ map[string]any) { layer["size"] = layer["size"].(int) - 1 },
		"a longer size":     func(_ oci, layer descriptor, _, _, _ map[string]any) { layer["size"] = layer["size"].(int) + 1 },
		"a size below zero": func(_ oci, layer descriptor, _, _, _ map[string]any) { layer["size"] = -1 },
		"a huge size":       func(_ oci, layer descriptor, _, _, _ map[string]any) { layer["size"] = 1 << 60 },
		"a layer elsewhere": func(_ oci, layer descriptor, _, _, _ map[string]any) { layer["urls"] = []string{server.URL} },
		"a missing one there": func(_ oci, layer descriptor, _, _, _ map[string]any) {
			layer["urls"], layer["digest"] = []string{server.URL}, zeros
		},
		"a foreign kind": func(_ oci, layer descriptor, _, _, _ map[string]any) {
			layer["mediaType"], layer["urls"] = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", []string{server.URL}
		},
		"an unknown kind": func(_ oci, layer descriptor, _, _, _ map[string]any) { layer["mediaType"] = "application/x-evil" },
		"5,000 layers": func(_ oci, layer descriptor, _, manifest, _ map[string]any) {
			manifest["layers"] = slices.Repeat([]descriptor{layer}, 5000)
		},
		"129 layers": func(_ oci, layer descriptor, config, manifest, _ map[string]any) {
			manifest["layers"] = slices.Repeat([]descriptor{layer}, 129)
			rootfs := config["rootfs"].(map[string]any)
			rootfs["diff_ids"] = slices.Repeat(rootfs["diff_ids"].([]string), 129)
		},
		"another content's id": func(_ oci, _ descriptor, config, _, _ map[string]any) {
			config["rootfs"] = map[string]any{"type": "layers", "diff_ids": []string{zeros}}
		},
		"another architecture": func(_ oci, _ descriptor, config, _, _ map[string]any) { config["architecture"] = "arm64" },
		"a path as a digest": func(_ oci, _ descriptor, _, _, index map[string]any) {
			index["manifests"] = []descriptor{{"mediaType": manifestType, "size": 100, "digest": "sha256:../../../../../etc/passwd"}}
		},
		"a path as an algorithm": func(_ oci, _ descriptor, _, _, index map[string]any) {
			index["manifests"] = []descriptor{{"mediaType": manifestType, "size": 100, "digest": "../../x:" + strings.Repeat("0", 64)}}
		},
		"a loop": func(o oci, _ descriptor, _, _, index map[string]any) {
			inner := o.json(indexType, map[string]any{"schemaVersion": 2, "manifests": []descriptor{{"mediaType": indexType, "size": 100, "digest": zeros}}})
			index["manifests"] = []descriptor{o.json(indexType, map[string]any{"schemaVersion": 2, "manifests": []descriptor{inner}})}
		},
		"a manifest of 5 MB": func(_ oci, _ descriptor, _, manifest, _ map[string]any) {
			manifest["annotations"] = map[string]string{"x": strings.Repeat("x", 5<<20)}
		},
		"an index of 5 MB": func(_ oci, _ descriptor, _, _, index map[string]any) { index["x"] = strings.Repeat("x", 5<<20) },
		"2,000 manifests": func(_ oci, _ descriptor, _, _, index map[string]any) {
			index["manifests"] = slices.Repeat([]descriptor{{"mediaType": "x", "size": 1, "digest": zeros}}, 2000)
		},
		"a layer that is a link": func(o oci, layer descriptor, _, _, _ map[string]any) {
			file := filepath.Join(o.dir, "blobs", "sha256", strings.TrimPrefix(layer["digest"].(string), "sha256:"))
			outside := filepath.Join(t.TempDir(), "blob")
			if os.Rename(file, outside) != nil || os.Symlink(outside, file) != nil {
				t.Fatal("cannot make a link")
			}
		},
	} {
		st := s.store(t)
		begin := time.Now()
		text, err := st.image(t, nil, "import", "--name", "oci", "--oci", layout(t, change))
		if (err == nil) != (name == "") || strings.Contains(text, "goroutine ") {
			t.Errorf("%q: %v, %s", name, err, text)
		}
		if name != "" {
			st.wantNothing(t)
		}
		if took := time.Since(begin); took > paced(20*time.Second) {
			t.Errorf("%q took %s", name, took)
		}
	}
	if asked.Load() > 0 {
		t.Errorf("%d requests were made for a layer", asked.Load())
	}
}

// T10: a name with a character that mount options, paths or command lines are
// made of is refused, or is only a name.
func TestT10_NamesInOptions(t *testing.T) {
	t.Parallel()
	s := stage(t, "")
	st := s.store(t)
	odd := []string{"a,b", "a:b:c", `a\b`, "a\nb", "a b", "lowerdir=/", "x,upperdir=/root", "--privileged", "-v", "--", "$(reboot)", "a;b", "a'b", `a"b`, "../x", "/x", "\x00", "a\x00b", strings.Repeat("n", 5000), "%s", "{{.}}"}
	root := tarOf(t, rootOf()...)
	for _, name := range odd {
		s.a.do(t, "POST", "/v1/sessions", map[string]any{"image": name}).refused(t, fmt.Sprintf("image %q", name), 400, 404)
		for field, value := range map[string]any{
			"hostname": name, "workspace_id": name, "driver": name, "network_mode": name, "restore_snapshot_id": name, "on_idle": name,
			"env": map[string]string{name + "=": "x"}, "image": "base@" + name,
		} {
			if field == "workspace_id" && name == "--" || field == "workspace_id" && strings.HasPrefix(name, "-") || field == "hostname" && name == "" {
				continue // such a workspace may have any of its characters; below it is used
			}
			s.a.do(t, "POST", "/v1/sessions", map[string]any{field: value}).refused(t, fmt.Sprintf("%s %q", field, name), 400, 404, 501)
		}
		if strings.Contains(name, "\x00") || len(name) > 4000 {
			continue // no program can be given it
		}
		text, err := st.load(t, name, root)
		if err == nil && !strings.HasPrefix(name, "lowerdir") || strings.Contains(text, "goroutine ") {
			t.Errorf("%q is an image: %s", name, text)
		}
	}
	st.wantNothing(t)
	// Names that are allowed to have them, and files.
	b := s.a.session(t, map[string]any{"labels": map[string]string{"a,b:c\\d": "--privileged $(reboot)"}, "env": map[string]string{"A": "x,upperdir=/root\n--privileged $(reboot)"}})
	if got := b.sh(t, `printf %s "$A"`); got != "x,upperdir=/root\n--privileged $(reboot)" {
		t.Errorf("the variable is %q", got)
	}
	for _, id := range []string{"--", "-v", "..."} {
		a := s.a.do(t, "POST", "/v1/sessions", map[string]any{"workspace_id": id})
		a.refused(t, "workspace "+id, 201, 400)
		var made struct{ ID string }
		if a.status == 201 {
			a.into(t, &made)
			(&target{s.a, made.ID}).end(t)
			s.a.forget(t, "/v1/workspaces/"+id+"?force=true")
		}
	}
}

// H10: attributes and names by which a layer would say what is gone, or is
// somewhere else, mean nothing when a session's files become a snapshot, another
// session's files or an image.
func TestH10_LayerMarks(t *testing.T) {
	t.Parallel()
	s := stage(t, ownDaemon)
	b := s.a.session(t, nil)
	b.python(t, `
import os
for d in ("/opt/m", "/workspace/m"):
    os.makedirs(d + "/sub"); open(d + "/f", "w").write("x")
    for name in (".wh.passwd", ".wh..wh..opq", ".wh..", ".wh...", ".wh..wh.plnk", "sub/.wh.f", ".wh.f"): open(d + "/" + name, "w").close()
    for key, value in (("user.overlay.opaque", b"y"), ("user.overlay.redirect", b"/etc"), ("user.overlay.origin", b"x"), ("user.overlay.metacopy", b""), ("user.overlay.whiteout", b"y"), ("trusted.overlay.opaque", b"y"), ("user.x", b"y")):
        for p in (d, d + "/f", d + "/sub"):
            try: os.setxattr(p, key, value)
            except OSError: pass
for name in ("/etc/.wh.passwd", "/etc/.wh..wh..opq"): open(name, "w").close()
try: os.mknod("/etc/group-", 0o20000, os.makedev(0, 0))
except OSError: pass
`)
	made := b.snapshot(t, map[string]any{"scope": "sandbox"})
	restored := s.a.session(t, map[string]any{"restore_snapshot_id": made})
	look := `test -s /etc/passwd && test -s /etc/shadow && test -s /opt/m/f && echo whole; python3 -c '
import os
for d in ("/opt/m", "/workspace/m"):
    for p in (d, d + "/f", d + "/sub"): print(os.listxattr(p))'`
	if got := restored.sh(t, look); got != "whole\n"+strings.Repeat("[]\n", 6) {
		t.Errorf("restored: %s", got)
	}
	for r := tar.NewReader(strings.NewReader(s.a.do(t, "GET", "/v1/snapshots/"+made+"/download", nil).body)); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		for key := range h.PAXRecords {
			if strings.Contains(key, "xattr") {
				t.Errorf("the archive has %s", key)
			}
		}
	}
	image := "marked-" + made[:6]
	// Only the daemon's own key changes images, and that sees no snapshots of others.
	archive := filepath.Join(t.TempDir(), "snapshot.tar")
	if err := os.WriteFile(archive, []byte(s.a.do(t, "GET", "/v1/snapshots/"+made+"/download", nil).body), 0o600); err != nil {
		t.Fatal(err)
	}
	uploaded := s.d.Output("snapshot", "upload", archive)
	defer s.d.Output("snapshot", "rm", uploaded)
	s.d.Output("image", "from-snapshot", uploaded, image)
	defer func() { s.d.Output("image", "rm", image) }()
	lower := s.a.session(t, map[string]any{"image": image})
	if got := lower.sh(t, `test -s /etc/passwd && test -s /etc/shadow && test -s /opt/m/f && echo whole`); got != "whole\n" {
		t.Errorf("as an image: %s", got)
	}
	lower.end(t)
}
