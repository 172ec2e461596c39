// Package peer is what the network traffic limiter is measured against: a token bucket for each source network in an
// LRU hash map, in XDP, as it is usually written. It exists for measurements only, and nothing but the benchmarks uses
// it.
package peer

// The object is all that is needed: what bpf2go writes in Go around it is for programs with many parts.
//
//go:generate sh ../bpf/generate.sh object bpf/lru.c
//go:generate rm -f object_bpfel.go
