// Package demo shows what weir does: a small service or a mail server, a real weir in front of it, people, and a flood.
//
// Run plays every scene of one list (see scenes) that this system can play, and shares the time out among them. A scene
// brings the service behind the gate, what the weir in front of it needs and a cast of actors who send real traffic
// over loopback, all the time or in turns. All of this is there twice: at a weir with the throttles at work, and at its
// twin with the throttles in shadow. A house holds both. A scene is played in two halves: first at the twin, which
// shows what the flood does to the people, then at the weir. At the end of each the actors finish what is under way, so
// that every figure belongs to one half only and nothing is cut off at the end.
//
//	openHouse: Scene.Setup, app.New, Start, twice -> half at the twin -> half at the weir -> ... -> Report
//
// The console of the weir has a page of the demo. There, visitors let people and a flood come to both sides of a scene
// at once, while the script does not play it.
//
// Actors who do not know the result at once, as those who send mail, are told later. Notes of a scene are shown while
// it plays. A scene may check what must be so at its end: the report has the checks, and Run returns an error where one
// failed.
//
// A scene is added by writing a function that returns a Scene, in a file of its own, and naming it in scenes.
//
// The weirs are started as any other, through app with a configuration, and are spoken to over their sockets only. Their
// data is in temporary folders that are removed at the end.
package demo
