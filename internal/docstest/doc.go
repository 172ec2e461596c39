// Package docstest holds the documentation against the program: configurations in it are valid, Go code compiles, links
// lead somewhere, keys, metrics and messages are the ones there are, and each guarantee names its test. The commands of
// pages are tried where the command is, in cmd/weir. There is nothing to import here.
//
// In a fenced block, the word after the backticks says what is done with it:
//
//	yaml             a whole configuration, which must be valid and without warnings
//	yaml fragment    a piece of one, which must be YAML
//	console, sh      lines that begin with "$ weir" (or "weir", in sh) are commands; flags and arguments must exist
//	sh start         what a new user pastes to start something: it is run, on other ports, with a weir of this source
//	sh try           what they paste then: it is run when all ports of the start are open
//	text             after "sh try": what that prints, line by line; an ellipsis stands for anything
//	go               a whole file, which must compile
//
// Indented lines that begin with "weir" are commands too.
package docstest
