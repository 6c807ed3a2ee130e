package contexts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/testenv"
	sandkasten "github.com/sandkasten/sandkasten/sdk/go"
	"github.com/sandkasten/sandkasten/test/blackbox"
)

// dataImages is an image store with the image data, built by its recipe. The first test
// of a recipe takes minutes.
func dataImages(t *testing.T) string {
	t.Helper()
	root, err := testenv.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	for _, name := range []string{"base", "python", "data"} {
		text, err := os.ReadFile(filepath.Join(root, "images", name, "recipe.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sum, "%d\n%s", len(text), text)
	}
	program := testenv.Program(t)
	data, err := testenv.Fixture("images-data-"+hex.EncodeToString(sum.Sum(nil))[:16], func(dir string) error {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		build := exec.CommandContext(t.Context(), program, "image", "build", "data")
		build.Env = append(blackbox.Environ(), "SANDKASTEN_DATA_DIR="+dir)
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%.4000s", err, text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(data, "images")
}

// TestDataImage holds what the image data is for: its libraries work in a context, figures
// and frames come as data, and its fonts draw what DejaVu does not.
func TestDataImage(t *testing.T) {
	testenv.NeedsRoot(t)
	d := blackbox.Start(t, blackbox.Options{Images: dataImages(t)})
	s, err := d.Client(d.Key).CreateSession(t.Context(), &sandkasten.CreateOptions{Image: "data", MemoryMB: 2048})
	if err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, code string) sandkasten.CodeRun {
		t.Helper()
		r, err := s.RunCode(t.Context(), code, nil)
		if err != nil || r.Cause != "completed" {
			t.Fatalf("%s: %+v %+v, %v", code, r, r.Error, err)
		}
		return r
	}
	t.Run("matplotlib, with CJK", func(t *testing.T) {
		r := run(t, "import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 5], label='漢字'); plt.title('日本語 한국어 中文'); plt.legend(); plt.show()")
		if len(r.Results) != 1 || r.Results[0].Chart == nil || r.Results[0].Chart.Title != "日本語 한국어 中文" || r.Results[0].Data["image/png"] == nil {
			t.Errorf("%+v", r)
		}
		if strings.Contains(r.Stderr, "Glyph") { // which matplotlib says of characters that no font has
			t.Error(r.Stderr)
		}
		if r := run(t, "plt.title('\\U00013000'); plt.show()"); !strings.Contains(r.Stderr, "Glyph") { // the control
			t.Errorf("a hieroglyph is drawn: %+v", r.Stderr)
		}
	})
	t.Run("plotly", func(t *testing.T) {
		r := run(t, "import plotly.express as px\npx.bar(x=['a', 'b'], y=[1, 2], title='Bars')")
		if len(r.Results) != 1 || r.Results[0].Chart == nil || r.Results[0].Chart.Library != "plotly" || r.Results[0].Chart.Type != "bar" || r.Results[0].Chart.Title != "Bars" {
			t.Fatalf("%+v", r)
		}
		if bar := r.Results[0].Chart.Axes[0].Series[0]; bar.X[1] != "b" || bar.Y[1] != 2.0 {
			t.Errorf("%+v", bar)
		}
		for mime, form := range r.Results[0].Data {
			if text, ok := form.(string); ok && strings.Contains(text, "<script") {
				t.Errorf("%s has a script: %.200s", mime, text)
			}
		}
	})
	t.Run("pandas, polars and their files", func(t *testing.T) {
		r := run(t, `
import pandas as pd, polars as pl
frame = pd.DataFrame({"n": [1, 2], "t": ["x", None]})
frame.to_parquet("f.parquet"); frame.to_excel("f.xlsx", index=False)
display(pd.read_parquet("f.parquet")); display(pd.read_excel("f.xlsx")); pl.read_parquet("f.parquet")`)
		if len(r.Results) != 3 {
			t.Fatalf("%+v", r)
		}
		for i, one := range r.Results {
			if one.Table == nil || one.Table.Shape[0] != 2 || one.Table.Rows[0][1] != "x" || one.Table.Rows[1][1] != nil {
				t.Errorf("%d: %+v", i, one.Table)
			}
		}
	})
	t.Run("scikit-learn and Pillow", func(t *testing.T) {
		r := run(t, "import numpy as np\nfrom sklearn.linear_model import LinearRegression\nround(float(LinearRegression().fit(np.array([[1], [2], [3]]), [2, 4, 6]).predict([[4]])[0]), 6)")
		if r.Text() != "8.0" {
			t.Errorf("%+v", r)
		}
		r = run(t, "from PIL import Image\nImage.new('RGB', (4, 4), 'red')")
		if png, err := r.PNG(); err != nil || !strings.HasPrefix(string(png), "\x89PNG") {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
