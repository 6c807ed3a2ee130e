// Package failpoint names the places where a crash test may stop the daemon.
// A build without the tag "failpoint" compiles Hit to nothing. What a point
// does comes from the environment, so the test chooses and the code only says
// where it is. Points of production logic do not belong here.
//
// SANDKASTEN_FAILPOINT holds "name=action", several separated by ";". The
// actions are "kill9" (the process ends as by kill -9), "error" (Hit returns
// an error) and "sleep:100ms". A point that is not named does nothing.
package failpoint
