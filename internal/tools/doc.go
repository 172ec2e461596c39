// Package tools is a module of its own for the tools that tests are reported and releases are made with: what they need
// is no business of weir's. make test and make release build them from here.
package tools
