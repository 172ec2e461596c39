//go:build !linux

package machine

// A Busyness is not known on other systems.
type Busyness struct{}

func Busy(...int) Busyness { return Busyness{} }

func (Busyness) Others(Busyness) float64 { return 0 }
