package reach_test

import (
	"fmt"
	"hash/maphash"
	"log"
	"time"

	"weir/throttle/reach"
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

// Judge says what may become of each recipient, the caller decides, and Commit takes in what became of them. It is the
// program of docs/reach.md.
func ExampleState_Commit() {
	rules, err := reach.Options{Threshold: reach.Threshold{Count: 3}}.Rules()
	if err != nil {
		log.Fatal(err)
	}
	seed := maphash.MakeSeed() // a key that is kept, where states are
	var ann reach.State        // one for each user
	var all reach.Population   // one for all
	for i := range 5 {
		address := fmt.Sprintf("friend%d@example.net", i)
		person, counted := rules.Recipient(address)
		if !counted {
			continue
		}
		now := time.Date(2026, 3, 2, 9, 0, i, 0, time.UTC)
		keys, fates := []uint64{maphash.String(seed, person)}, make([]reach.Fate, 1)
		verdict := ann.Judge(rules, &all, now, keys, fates)
		// Here the message is sent to those who pass; who could not be reached after all is reach.Refuse.
		_, samples := ann.Commit(rules, &all, now, keys, fates)
		all.Observe(now, samples)
		fmt.Println(address, fates[0] == reach.Pass, verdict.Flagged) // the fourth and fifth do not pass
	}
	// Output:
	// friend0@example.net true false
	// friend1@example.net true false
	// friend2@example.net true false
	// friend3@example.net false true
	// friend4@example.net false true
}

// What was settled is stored by itself: it is large, and seldom changes.
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
