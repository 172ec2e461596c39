// Package tools is a module of its own for the tools that releases are made with: what they need is no business of
// weir's. make release builds them from here.
package tools
