package config

import (
	_ "embed"
	"slices"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of the configuration, for editors. It is generated from the option
// types and their field comments.
func Schema() []byte { return slices.Clone(schema) }
