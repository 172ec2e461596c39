// Command crosscheck type-checks all of weir, except tests, for every system and processor that it is made for. It
// finds names that one of the systems lacks in seconds, while eight builds take many minutes. It does not find errors
// of code generation and linking; make cross does.
package main
