package logs

import "sync"

// maxNames bounds the names that are counted separately. The rest are counted as Others.
const maxNames = 256

// Others is the name for lines beyond the bound of names.
const Others = "others"

// Rates lets the first few lines of each name pass in every second, and counts the rest. The zero value is ready.
// Goroutines may share it.
type Rates struct {
	mu     sync.Mutex
	second int64
	passed map[string]int   // in that second
	hidden map[string]int64 // since Hidden was last called
}

// Pass reports whether another line of that name may be written in a second. most lines may.
func (r *Rates) Pass(name string, most int, second int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.passed == nil {
		r.passed, r.hidden = map[string]int{}, map[string]int64{}
	}
	if second != r.second {
		r.second = second
		clear(r.passed)
	}
	if _, known := r.passed[name]; !known && len(r.passed) >= maxNames {
		name = Others
	}
	if r.passed[name] < most {
		r.passed[name]++
		return true
	}
	if _, known := r.hidden[name]; !known && len(r.hidden) >= maxNames {
		name = Others
	}
	r.hidden[name]++
	return false
}

// Hidden returns how many lines of each name did not pass since it was last called.
func (r *Rates) Hidden() map[string]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	hidden := r.hidden
	if len(hidden) > 0 {
		r.hidden = map[string]int64{}
	}
	return hidden
}
