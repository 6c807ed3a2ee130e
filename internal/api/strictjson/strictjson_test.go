package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/sandkasten/sandkasten/internal/api/strictjson"
	"github.com/sandkasten/sandkasten/internal/errdefs"
)

type inner struct {
	Deep int64 `json:"deep"`
}

// Flat is exported because encoding/json passes over embedded types that are not.
type Flat struct {
	Top string `json:"top"`
}

type wanted struct {
	Flat
	Name string            `json:"name"`
	N    int64             `json:"n"`
	Env  map[string]string `json:"env"`
	In   *inner            `json:"in"`
	List []inner           `json:"list"`
}

func TestDecode(t *testing.T) {
	tests := []struct{ name, in, field, says string }{
		{"good", `{"name":"x","n":1,"env":{"A":"1","a":"2"},"in":{"deep":2},"list":[{"deep":3}],"top":"t"}`, "", ""},
		{"white space", " { \"name\" :\t\"x\" , \"list\" : [ ] } \n", "", ""},
		{"escapes", `{"name":"\"\\\u00e4\ud83d\ude00"}`, "", ""},
		{"empty", ``, "", "not valid JSON"},
		{"cut", `{"name":"x"`, "", "not valid JSON"},
		{"trailing data", `{"name":"x"} {}`, "", "not valid JSON"},
		{"trailing comma", `{"name":"x",}`, "", "not valid JSON"},
		{"NaN", `{"n":NaN}`, "", "not valid JSON"},
		{"unknown field", `{"nome":"x"}`, "nome", "is not a field"},
		{"unknown field inside", `{"in":{"deeper":1}}`, "in.deeper", "is not a field"},
		{"unknown field in a list", `{"list":[{"deep":1},{"x":1}]}`, "list[1].x", "is not a field"},
		{"other case", `{"Name":"x"}`, "Name", "is not a field"},
		{"twice", `{"name":"x","name":"y"}`, "name", "appears twice"},
		{"twice, once escaped", `{"name":"x","n\u0061me":"y"}`, "name", "appears twice"},
		{"twice in a map", `{"env":{"A":"1","A":"2"}}`, "env.A", "appears twice"},
		{"null", `{"name":null}`, "name", "must not be null"},
		{"null inside", `{"in":{"deep":null}}`, "in.deep", "must not be null"},
		{"null in a map", `{"env":{"A":null}}`, "env.A", "must not be null"},
		{"null itself", `null`, "the request body", "must not be null"},
		{"wrong type", `{"n":"1"}`, "n", "must not be a string"},
		{"fraction", `{"n":1.5}`, "n", "must not be a number"},
		{"too big a number", `{"n":1e308}`, "n", "must not be a number"},
		{"not UTF-8", "{\"name\":\"\xff\"}", "", "must be UTF-8"},
		{"half a pair", `{"name":"\ud83d"}`, "name", "surrogate"},
		{"half a pair before an escape", `{"name":"\ud83d\n"}`, "name", "surrogate"},
		{"two first halves", `{"name":"\ud83d\ud83d"}`, "name", "surrogate"},
		{"second half first", `{"name":"\ude00\ud83d"}`, "name", "surrogate"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var v wanted
			err := strictjson.Decode([]byte(tt.in), &v)
			if tt.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			e, ok := errors.AsType[*errdefs.Error](err)
			if !ok || e.Code != errdefs.InvalidArgument {
				t.Fatalf("error %v, want invalid_argument", err)
			}
			if e.Field != tt.field || !strings.Contains(e.Message, tt.says) {
				t.Errorf("field %q: %q, want field %q and %q", e.Field, e.Message, tt.field, tt.says)
			}
		})
	}
}

func TestDecodeDepth(t *testing.T) {
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for _, in := range []string{deep, deep[50_000-40:50_000] + deep[150_000-60:150_000-20]} {
		var v any
		if err := strictjson.Decode([]byte(in), &v); !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Errorf("%d levels gave %v", len(in)/2, err)
		}
	}
}

// TestDecodeManyKeys takes no longer than the keys are many.
func TestDecodeManyKeys(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(`{"env":{"x":"x"`)
	for i := range 200_000 {
		b.WriteString(`,"`)
		b.WriteString(strconv.Itoa(i))
		b.WriteString(`":""`)
	}
	b.WriteString("}}")
	var v wanted
	if err := strictjson.Decode(b.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Env) != 200_001 {
		t.Errorf("%d keys", len(v.Env))
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"name":"x","n":1,"env":{"A":"1"},"in":{"deep":2},"list":[{"deep":3}]}`))
	f.Add([]byte(`{"name":"\ud83d\ude00"}`))
	f.Add([]byte(`[[{"a":[null]}]]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var strict, lenient wanted
		err := strictjson.Decode(data, &strict)
		lenientErr := json.Unmarshal(data, &lenient)
		if err == nil && (lenientErr != nil || !reflect.DeepEqual(strict, lenient)) {
			t.Fatalf("accepted as %+v, encoding/json says %+v, %v", strict, lenient, lenientErr)
		}
		if err != nil && !errdefs.Is(err, errdefs.InvalidArgument) {
			t.Fatalf("error without a code: %v", err)
		}
		var anything any
		if err := strictjson.Decode(data, &anything); err == nil && !json.Valid(data) {
			t.Fatal("accepted what is not JSON")
		}
	})
}
