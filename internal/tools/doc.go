// Package tools is a module of its own for tools that weir is not built with, but checked or released: what they need is
// no business of weir's. make mutants and make release build them from here.
package tools
