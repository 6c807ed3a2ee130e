package v1

import (
	"github.com/danielgtaylor/huma/v2"
)

// exampleTime is when everything happens in examples.
const exampleTime = "2026-11-21T09:00:00Z"

// documentExamples gives each request and answer an example, made of those of
// its fields. Fields that may be left out and have none are left out.
func documentExamples(schemas huma.Registry) {
	for _, schema := range schemas.Map() {
		if schema.Type == huma.TypeObject && len(schema.Examples) == 0 {
			schema.Examples = []any{exampleOf(schemas, schema)}
		}
	}
}

func exampleOf(schemas huma.Registry, schema *huma.Schema) any {
	if schema.Ref != "" {
		schema = schemas.SchemaFromRef(schema.Ref)
	}
	switch {
	case len(schema.Examples) > 0:
		return schema.Examples[0]
	case len(schema.Enum) > 0:
		return schema.Enum[0]
	case schema.Format == "date-time":
		return exampleTime
	}
	switch schema.Type {
	case huma.TypeObject:
		return exampleObject(schemas, schema)
	case huma.TypeArray:
		return []any{exampleOf(schemas, schema.Items)}
	case huma.TypeInteger, huma.TypeNumber:
		return 0
	case huma.TypeBoolean:
		return false
	}
	return ""
}

func exampleObject(schemas huma.Registry, schema *huma.Schema) map[string]any {
	object := make(map[string]any)
	for name, property := range schema.Properties {
		if len(property.Examples) > 0 {
			object[name] = property.Examples[0]
		}
	}
	for _, name := range schema.Required {
		object[name] = exampleOf(schemas, schema.Properties[name])
	}
	return object
}
