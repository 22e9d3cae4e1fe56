// The file server of the fasthttp library with as little around it as possible: a server under test in
// Ropewalk's benchmarks. No access log, no compression, no directory listing.
package main

import (
	"flag"
	"fmt"
	"log"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen at")
	root := flag.String("root", ".", "folder to serve")
	maxConns := flag.Int("max-conns", 16384, "connections open at once")
	reduceMemory := flag.Bool("reduce-memory", false, "give buffers back after each request")
	version := flag.Bool("version", false, "print the library's version")
	flag.Parse()
	if *version {
		fmt.Println("fasthttp", libraryVersion())
		return
	}

	files := &fasthttp.FS{
		Root:            *root,
		IndexNames:      []string{"index.html"},
		AcceptByteRange: true,
		// A file is kept open for this long and at most half as long again: never staler than 0.9 s.
		CacheDuration: 600 * time.Millisecond,
	}
	server := &fasthttp.Server{
		Handler:           files.NewRequestHandler(),
		Concurrency:       *maxConns,
		ReduceMemoryUsage: *reduceMemory,
		IdleTimeout:       10 * time.Minute,
	}
	log.Fatal(server.ListenAndServe(*listen))
}

// libraryVersion is the fasthttp version that was linked, from the build's own record.
func libraryVersion() string {
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range build.Deps {
			if dependency.Path == "github.com/valyala/fasthttp" {
				return dependency.Version
			}
		}
	}
	return "unknown"
}
