// Package yamltree reads YAML into a tree of nodes that know their positions, so that mistakes can be reported with
// their line. Values stay text, as they are written. Depth and keys are bounded before the parser runs.
package yamltree
