package reach_test

import (
	"fmt"
	"hash/maphash"

	"weir/reach"
)

// A newsletter to the same people again adds nobody.
func ExampleSketch() {
	seed := maphash.MakeSeed() // a farm has one key for all its nodes
	var sketch reach.Sketch
	for issue := range 3 {
		added := 0.0
		for reader := range 500 {
			added += sketch.Add(maphash.String(seed, fmt.Sprint("reader", reader, "@example.org")))
		}
		fmt.Printf("issue %d: %.0f new, %.0f in all\n", issue+1, added, sketch.Count())
	}
	// Output:
	// issue 1: 500 new, 500 in all
	// issue 2: 0 new, 500 in all
	// issue 3: 0 new, 500 in all
}

// What was settled is stored by itself: it is large, and changes rarely.
func ExampleKnown() {
	var known reach.Known
	for n := range uint64(1000) {
		known.Add(keyOf(n))
	}
	recent, _ := known.AppendRecent(nil)
	settled, _ := known.AppendSettled(nil)
	fmt.Println("written with every mail:", len(recent), "bytes; rarely:", len(settled))

	var read reach.Known
	fmt.Println(read.SetSettled(settled), read.SetRecent(recent))
	fmt.Println(read.Has(keyOf(7)), read.Has(keyOf(12345)))
	// Output:
	// written with every mail: 163 bytes; rarely: 1796
	// <nil> <nil>
	// true false
}

// keyOf stands for the keyed hash of an address.
func keyOf(n uint64) uint64 { return (n + 1) * 0x9e3779b97f4a7c15 }
