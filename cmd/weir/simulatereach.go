package main

// simulateReachCommand is weir simulate reach.
type simulateReachCommand struct{}
