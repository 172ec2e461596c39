//go:build !linux

package machine

import "syscall"

// A Busyness is not known on other systems.
type Busyness struct{}

func Busy(...int) Busyness { return Busyness{} }

func (Busyness) Others(Busyness) float64 { return 0 }

// endWithUs asks for nothing: other systems do not offer it.
func endWithUs() *syscall.SysProcAttr { return nil }

// comeLast does nothing: elsewhere it would concern the whole process.
func comeLast() {}
