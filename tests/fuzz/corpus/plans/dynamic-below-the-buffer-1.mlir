kernel.dynamic @open shape <3, ?> from <(a, b) : [a, b]> to <(a, b) : [b*-6, a], offset = 7> elements <f32 to f32>
