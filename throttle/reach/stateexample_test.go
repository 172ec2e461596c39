package reach_test

import (
	"fmt"
	"time"

	"weir/throttle/reach"
)

// An account is stolen: strangers are held from the one on who is too many, and friends are still reached. The clock is
// the caller's.
func ExampleState() {
	rules, err := reach.Options{Threshold: reach.Threshold{Count: 50}}.Rules()
	if err != nil {
		fmt.Println(err)
		return
	}
	var (
		user   reach.State
		others reach.Population // what is usual among them, for thresholds that are learnt
		now    = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	)
	friends := []uint64{0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9} // keyed hashes of their addresses
	user.Commit(rules, &others, now, friends, nil)

	now = now.Add(24 * time.Hour)
	for stranger := range uint64(100) {
		_, samples := user.Commit(rules, &others, now, []uint64{(stranger + 1) * 0x94d049bb133111eb}, nil)
		others.Observe(now, samples)
	}
	_, by, flagged := user.Flagged()
	fmt.Printf("flagged: %t, with %.0f in an %s; known: %.0f\n", flagged, by.New, by.Window, user.Count())

	verdict := user.Judge(rules, &others, now, append(friends, 7), nil)
	fmt.Printf("of the next three %d are known, and %d is held\n", verdict.Known, verdict.Held)

	verdict = user.Judge(rules, &others, now.Add(25*time.Hour), []uint64{7}, nil)
	fmt.Printf("a day later flagged: %t\n", verdict.Flagged)
	// Output:
	// flagged: true, with 51 in an hour; known: 52
	// of the next three 2 are known, and 1 is held
	// a day later flagged: false
}
