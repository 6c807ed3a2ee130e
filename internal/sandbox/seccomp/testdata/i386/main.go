// Command i386 is built for 32-bit x86 and says that it lives.
package main

func main() { print("alive") }
