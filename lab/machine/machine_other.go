//go:build !linux

package machine

import (
	"syscall"
	"time"
)

// A Busyness is not known on other systems.
type Busyness struct{}

func Busy(...int) Busyness { return Busyness{} }

func (Busyness) Others(Busyness) float64 { return 0 }

// Spent is not known on other systems.
func Spent(...int) time.Duration { return 0 }

// Family is the process alone on other systems.
func Family(pid int) []int { return []int{pid} }

// endWithUs asks for nothing: other systems do not offer it.
func endWithUs() *syscall.SysProcAttr { return nil }

// comeLast does nothing: elsewhere it would concern the whole process.
func comeLast() {}
