"""What the lab uses of lupa, over a Lua 5.1 beside Python in the browser: see `lua51`."""
