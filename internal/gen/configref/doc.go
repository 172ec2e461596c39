// Command configref writes what describes the configuration: config/schema.json for editors and docs/configuration.md
// for people. Both come from the option types and from the comments on their fields, which are read from the source. It
// fails when a field has no comment. The output is the same on every run.
//
//	go generate ./config
package main
