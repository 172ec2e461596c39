package loglimit

import "sync"

// maxNames bounds the names that are told apart; the rest have one in common.
const maxNames = 256

// Others is the name of what comes when there are too many names.
const Others = "others"

// Rates lets the first few lines of each name pass in every second, and counts the rest. The zero value is ready, and
// several goroutines may share it.
type Rates struct {
	mu     sync.Mutex
	second int64
	passed map[string]int   // in that second
	hidden map[string]int64 // since Hidden was last called
}

// Pass reports whether another line of that name may be written in a second, of which most may.
func (r *Rates) Pass(name string, most int, second int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if second != r.second || r.passed == nil {
		r.second = second
		if r.passed == nil {
			r.passed, r.hidden = map[string]int{}, map[string]int64{}
		}
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
