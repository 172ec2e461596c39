// Package config reads the configuration: it decodes the file, checks it and describes it.
//
// Load is what most callers want. It is strict, it reports every mistake at once, each with file, line, column and a
// hint, and it changes nothing anywhere. A configuration that was put together by code is checked by Config.Validate.
//
//	YAML text -> tree (tree.go) -> Config (decode.go) -> Validate (check.go) -> mistakes at their lines (locate.go)
//
// The option types belong to the packages that they configure; this package only assembles them. Their field comments
// are the reference: from them come schema.json, for editors, and docs/configuration.md, for people.
package config

//go:generate go run weir/internal/gen/configref
