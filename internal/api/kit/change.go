package kit

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// Change is a field of a request that may be null, which says something else than to
// leave it out.
type Change[T any] struct {
	Set   bool // it was not left out
	Value *T   // nil for null
}

// UnmarshalJSON implements json.Unmarshaler. It is not called for what is left out.
func (c *Change[T]) UnmarshalJSON(data []byte) error {
	c.Set, c.Value = true, nil
	return json.Unmarshal(data, &c.Value)
}

// Schema is for the document.
func (Change[T]) Schema(r huma.Registry) *huma.Schema {
	s := *huma.SchemaFromType(r, reflect.TypeFor[T]())
	s.Nullable = true
	return &s
}
