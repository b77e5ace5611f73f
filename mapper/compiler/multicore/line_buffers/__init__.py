"""Line buffers: cores keep some columns of a map, and process an image from left to right."""
