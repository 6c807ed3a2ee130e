package programs

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sandkasten "github.com/sandkasten/sandkasten/sdk/go"

	"github.com/sandkasten/sandkasten/internal/testenv"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// recipe is what the documentation of a tool has people type, in the image that is for it.
// Each begins in a directory and a home of its own, and ends with ok.
type recipe struct{ image, tool, script string }

// toolRecipes need no network but the index or the registry of testdata, in the sandbox.
var toolRecipes = []recipe{
	{"python", "venv", `python -m venv .venv && source .venv/bin/activate && python -m pip install skdemo && test "$(which skdemo)" = "$PWD/.venv/bin/skdemo" && skdemo && echo ok`},
	{"python", "pip", `pip install skdemo && python -c 'import skdemo; skdemo.main()' && skdemo && pip uninstall -y skdemo && echo ok`},
	{"python", "uv venv, uv pip", `uv venv && uv pip install skdemo && source .venv/bin/activate && python -c 'import skdemo; skdemo.main()' && test "$(which skdemo)" = "$PWD/.venv/bin/skdemo" && deactivate && ! python -c 'import skdemo' 2>/dev/null && echo ok`},
	{"python", "uv pip --system", `uv pip install --system skdemo && python -c 'import skdemo; skdemo.main()' && uv pip uninstall --system skdemo && echo ok`},
	{"python", "uv init, add, run", `uv init hello && cd hello && uv run hello && uv add skdemo && uv run python -c 'import skdemo; skdemo.main()' && uv run skdemo && uv sync && uv tool install skdemo && ~/.local/bin/skdemo && uvx skdemo && echo ok`},
	{"python", "pipx", `python3 -m pip install --user pipx && python3 -m pipx ensurepath && export PATH=$HOME/.local/bin:$PATH && pipx install skdemo && skdemo && echo ok`},
	{"python", "poetry", `python3 -m pip install --user pipx && export PATH=$HOME/.local/bin:$PATH && pipx install poetry && poetry new demo && cd demo && poetry source add --priority=primary here http://127.0.0.1:8099/simple/ && poetry add skdemo && poetry run skdemo && echo ok`},
	{"node", "npm, npx", `npm init -y && npm install skdemo && test "$(node -p 'require("skdemo")')" = 'skdemo is here' && npx skdemo && npm install -g skdemo && skdemo && npm uninstall -g skdemo && echo ok`},
	{"node", "pnpm", `npm install -g pnpm && pnpm init && pnpm add skdemo && test "$(node -p 'require("skdemo")')" = 'skdemo is here' && pnpm exec skdemo && pnpm dlx skdemo && npm uninstall -g pnpm && echo ok`},
	{"node", "yarn 1", `npm install --global yarn && yarn init -y && yarn add skdemo && test "$(node -p 'require("skdemo")')" = 'skdemo is here' && yarn run skdemo && npm uninstall --global yarn && echo ok`},
	{"node", "yarn berry", `npm install -g corepack && corepack enable && corepack use yarn@4 && yarn init && yarn add skdemo && test "$(yarn node -p 'require("skdemo")')" = 'skdemo is here' && yarn run skdemo && echo ok`},
	{"base", "git", `git init -q r && chown -R 1234:1234 r && git -C r status --short && git -C r -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && echo ok`},
}

//go:embed testdata/index.py testdata/registry.js
var indexes embed.FS

// toolPackages returns a directory with what the recipes install beside skdemo: wheels, and
// packages of npm. Without it in the cache it is downloaded.
func toolPackages(t *testing.T) string {
	t.Helper()
	dir, err := testenv.Fixture("tool-packages-1", func(dir string) error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		for _, command := range []string{
			"mkdir -p wheels packages",
			"python3 -m pip download --quiet --disable-pip-version-check --dest wheels --only-binary=:all: --python-version 3.11 " +
				"--platform manylinux2014_x86_64 --platform manylinux_2_28_x86_64 --platform any pipx==1.18.4 poetry==2.5.1",
			"cd packages && npm pack --silent pnpm@10.34.9 yarn@1.22.22 corepack@0.34.7 @yarnpkg/cli-dist@4.18.1",
		} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			cmd := exec.CommandContext(ctx, "sh", "-c", command)
			cmd.Dir = dir
			if text, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w\n%s", command, err, text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestToolsOfTheImages follows the documentation of package managers in the images of the
// program's own recipes. No variable of these may change what a tool does by it.
func TestToolsOfTheImages(t *testing.T) {
	testenv.NeedsRoot(t)
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		testenv.Unsupported(t, "make the images: %v", err)
	}
	data := testenv.DataDir(t)
	packages := toolPackages(t)
	for _, image := range []string{"base", "python", "node"} {
		cmd := exec.CommandContext(t.Context(), testenv.Program(t), "image", "build", image)
		cmd.Env = append(blackbox.Environ(), "SANDKASTEN_DATA_DIR="+data)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	client := blackbox.Start(t, blackbox.Options{Images: filepath.Join(data, "images")}).Client("")
	sessions := map[string]*sandkasten.Session{}
	for _, r := range toolRecipes {
		t.Run(r.image+"/"+r.tool, func(t *testing.T) {
			if sessions[r.image] == nil {
				sessions[r.image] = withIndex(t, client, r.image, packages)
			}
			tryRecipe(t, sessions[r.image], r)
		})
	}
	for _, s := range sessions {
		if err := s.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// withIndex is a session of an image in which packages can be installed from.
func withIndex(t *testing.T, client *sandkasten.Client, image, packages string) *sandkasten.Session {
	t.Helper()
	s, err := client.CreateSession(t.Context(), &sandkasten.CreateOptions{Image: image, MemoryMB: 1024, DiskMB: 2048, Pids: 256})
	if err != nil {
		t.Fatal(err)
	}
	const serve = "mkdir -p /srv && mv /workspace/.index /srv/index && ln -s index/wheels index/packages /srv && cd /srv/index && "
	start, port := "true", ""
	switch image {
	case "python":
		start, port = "(python3 index.py >/tmp/index.log 2>&1 &)", "8099"
	case "node":
		start, port = "(node registry.js >/tmp/index.log 2>&1 &)", "8098"
	}
	for _, name := range []string{"index.py", "registry.js"} {
		text, err := indexes.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Write(t.Context(), ".index/"+name, strings.NewReader(string(text)), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"wheels", "packages"} {
		files, err := os.ReadDir(filepath.Join(packages, kind))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			content, err := os.Open(filepath.Join(packages, kind, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			err = s.Write(t.Context(), ".index/"+kind+"/"+f.Name(), content, nil)
			content.Close()
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	await := ""
	if port != "" {
		await = " && for i in $(seq 100); do curl -s -o /dev/null http://127.0.0.1:" + port + " && break; sleep 0.1; done"
	}
	if r, err := s.Exec(t.Context(), serve+start+await, nil); err != nil || r.ExitCode != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	return s
}

// tryRecipe follows a recipe. Its variables say where packages are, as a host's
// configuration does, and nothing else.
func tryRecipe(t *testing.T, s *sandkasten.Session, r recipe) {
	t.Helper()
	shell := strings.NewReplacer(" ", "-", ",", "").Replace(r.tool)
	result, err := s.Exec(t.Context(), "mkdir -p /workspace/"+shell+" /root/home/"+shell+" && cd /workspace/"+shell+" && "+r.script, &sandkasten.ExecOptions{
		Timeout: 4 * time.Minute, Shell: shell, Env: map[string]string{
			"HOME": "/root/home/" + shell, "PIP_INDEX_URL": "http://127.0.0.1:8099/simple", "UV_DEFAULT_INDEX": "http://127.0.0.1:8099/simple",
			"NPM_CONFIG_REGISTRY": "http://127.0.0.1:8098", "YARN_REGISTRY": "http://127.0.0.1:8098", "YARN_NPM_REGISTRY_SERVER": "http://127.0.0.1:8098",
			"YARN_UNSAFE_HTTP_WHITELIST": "127.0.0.1", "COREPACK_NPM_REGISTRY": "http://127.0.0.1:8098", "COREPACK_INTEGRITY_KEYS": "0",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if result.ExitCode != 0 || !strings.HasSuffix(strings.TrimSpace(result.Output), "ok") {
		t.Errorf("exit code %d, cause %s\n%s", result.ExitCode, result.Cause, result.Output)
	}
}
