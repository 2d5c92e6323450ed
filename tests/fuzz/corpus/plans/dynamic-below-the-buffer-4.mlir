kernel.dynamic @open shape <?, ?> from <(a, b) : [a*-16, b]> to <(a, b) : [a, b]> elements <f32 to f32>
